# Read by oneDNN's own CMakeLists.txt after project(). Most of its sources are
# compiled several at a time: each spends most of its time on the same headers.
# Not where a name in one is taken by another, or where its `using namespace`
# changes what another means: those are compiled alone.
set(CMAKE_UNITY_BUILD ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 10)

# Groups of `size` of the sources of dnnl_cpu that `pattern` names.
function(winnow_group name size pattern)
  file(GLOB sources ${PROJECT_SOURCE_DIR}/src/cpu/${pattern})
  list(REMOVE_ITEM sources ${ARGN})
  set(index 0)
  foreach(source ${sources})
    math(EXPR group "${index} / ${size}")
    set_source_files_properties(
      ${source} TARGET_DIRECTORY dnnl_cpu PROPERTIES UNITY_GROUP
                                                     ${name}${group})
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()

function(join_sources)
  set_source_files_properties(
    src/common/gemm.cpp src/cpu/x64/brgemm/brgemv_ir.cpp
    src/cpu/x64/matmul/brgemm_matmul.cpp
    TARGET_DIRECTORY dnnl_common dnnl_cpu_x64
    PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set(cpu ${PROJECT_SOURCE_DIR}/src/cpu)
  file(GLOB lists ${cpu}/*_list.cpp)
  winnow_group(engine 8 *.cpp ${lists} ${cpu}/gemm_inner_product_utils.cpp)
  winnow_group(gemm 10 gemm/*.cpp)
  winnow_group(products 10 matmul/*.cpp)
  winnow_group(reorders 10 reorder/*.cpp)
  winnow_group(lists 8 cpu_*_list.cpp ${cpu}/cpu_convolution_list.cpp
               ${cpu}/cpu_deconvolution_list.cpp ${cpu}/cpu_inner_product_list.cpp
               ${cpu}/cpu_shuffle_list.cpp)
  # Every list has a function of this name for itself.
  set_target_properties(
    dnnl_cpu
    PROPERTIES
      UNITY_BUILD_MODE GROUP
      UNITY_BUILD_UNIQUE_ID WINNOW_SOURCE
      UNITY_BUILD_CODE_BEFORE_INCLUDE
      "#define WINNOW_JOIN(a, b) a##b
#define WINNOW_NAME(a, b) WINNOW_JOIN(a, b)
#define impl_list_map WINNOW_NAME(impl_list_map_, WINNOW_SOURCE)")
endfunction()
cmake_language(DEFER CALL join_sources)
