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
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
# CMake 3.25 does not find out by itself that this compiler has C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)

# CMake 3.25's own FindCUDAToolkit does not know CUDA 13.
get_filename_component(cuda_bin ${CMAKE_CUDA_COMPILER} DIRECTORY)
get_filename_component(cuda_root ${cuda_bin} DIRECTORY)
find_path(WINNOW_CUDA_INCLUDE cublasLt.h
          HINTS ${cuda_root}/include ${cuda_root}/targets/x86_64-linux/include
          REQUIRED)
find_library(WINNOW_CUDART libcudart_static.a
             HINTS ${cuda_root}/lib ${cuda_root}/lib64
                   ${cuda_root}/targets/x86_64-linux/lib
             REQUIRED)
add_library(winnow_cudart INTERFACE)
target_include_directories(winnow_cudart SYSTEM
                           INTERFACE ${WINNOW_CUDA_INCLUDE})
target_link_libraries(winnow_cudart INTERFACE ${WINNOW_CUDART} rt
                                              Threads::Threads
                                              ${CMAKE_DL_LIBS})
