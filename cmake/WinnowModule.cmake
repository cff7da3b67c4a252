# winnow_module(NAME name [ALONE] SOURCES files... DEPS targets... TESTS files...
#             TEST_DEPS targets...)
# One module: the static library winnow_<name> and, beside it, one test program
# <name>_test made of every *_test.cc. ALONE: each source is compiled alone.
# DEPS says the arrows a second time; the first time is the includes, which
# scripts/lint.py reads.
function(winnow_module)
  cmake_parse_arguments(MODULE "ALONE" "NAME" "SOURCES;DEPS;TESTS;TEST_DEPS" ${ARGN})
  set(target winnow_${MODULE_NAME})
  if(MODULE_SOURCES)
    add_library(${target} STATIC ${MODULE_SOURCES})
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} PUBLIC ${MODULE_DEPS})
    if(WINNOW_JOIN_SOURCES AND NOT MODULE_ALONE)
      winnow_join(${target})
    endif()
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} INTERFACE ${MODULE_DEPS})
  endif()
  if(WINNOW_TESTS AND MODULE_TESTS)
    add_executable(${MODULE_NAME}_test ${MODULE_TESTS})
    target_include_directories(${MODULE_NAME}_test
                               PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${MODULE_NAME}_test PRIVATE ${target} ${MODULE_TEST_DEPS}
                                                    GTest::gtest_main)
    winnow_compile_test(${MODULE_NAME}_test)
    winnow_discover_tests(${MODULE_NAME}_test)
  endif()
endfunction()

# Most of a source's time is that of the headers it includes. With ten at a time,
# and more of oneDNN's sources joined, a bare checkout's `make demo` takes 8 min
# 5 s on two Zen 4 cores, where it took 14 min 34 s. So what stands
# in the unnamed namespaces of a module's sources has one name in the module, and
# likewise of its tests (scripts/lint.py). Sources with flags of their own are
# compiled alone, as all are without WINNOW_JOIN_SOURCES.
function(winnow_join target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON
                                             UNITY_BUILD_BATCH_SIZE 10)
endfunction()

# A module's test program is joined like the module, and compiled with -O1.
function(winnow_compile_test target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(WINNOW_JOIN_SOURCES)
    winnow_join(${target})
  endif()
endfunction()

# winnow_discover_tests(program [ALONE] [TEST_FILTER filter] [LABELS labels...])
# Gives ctest each test of a GoogleTest program by the name that the program's
# own --gtest_filter takes. ALONE: no other test runs meanwhile.
function(winnow_discover_tests program)
  cmake_parse_arguments(TESTS "ALONE" "TEST_FILTER" "LABELS" ${ARGN})
  set(properties TIMEOUT 300)
  if(TESTS_ALONE)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  if(TESTS_LABELS)
    list(APPEND properties LABELS ${TESTS_LABELS})
  endif()
  gtest_discover_tests(
    ${program} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
    TEST_FILTER "${TESTS_TEST_FILTER}" PROPERTIES ${properties})
endfunction()
