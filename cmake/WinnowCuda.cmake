# The CUDA compiler: the one that the environment names (CUDACXX), else the one
# that scripts/bootstrap installed into the checkout, else the system's.
# Hopper alone: the kernels use wgmma and the bulk tensor copies of sm_90a.
set(WINNOW_CUDA_ROOT ${PROJECT_SOURCE_DIR}/.tools/cuda/nvidia/cu13)
if(NOT DEFINED ENV{CUDACXX} AND NOT CMAKE_CUDA_COMPILER
   AND EXISTS ${WINNOW_CUDA_ROOT}/bin/nvcc)
  set(CMAKE_CUDA_COMPILER ${WINNOW_CUDA_ROOT}/bin/nvcc)
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real)
endif()
if(WINNOW_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${WINNOW_CCACHE})
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
find_package(CUDAToolkit 12.8 REQUIRED)
