# Fuzzing by libFuzzer, asked for with -DWINNOW_FUZZ=ON and clang. Everything is
# then built with coverage, address and undefined-behaviour instrumentation;
# only programs made by winnow_fuzzer have libFuzzer's main.
#
#   cmake -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
#     -DCMAKE_CXX_COMPILER=clang++-14 -DWINNOW_FUZZ=ON

option(WINNOW_FUZZ "Build the fuzz targets (clang)" OFF)

if(WINNOW_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "WINNOW_FUZZ needs CMAKE_CXX_COMPILER clang++, "
                        "is ${CMAKE_CXX_COMPILER}")
  endif()
  set(winnow_fuzz_flags -fsanitize=fuzzer-no-link,address,undefined
                        -fno-sanitize-recover=all -fno-omit-frame-pointer
                        -Wno-unknown-warning-option)
  add_compile_options(${winnow_fuzz_flags})
  add_link_options(-fsanitize=address,undefined)
endif()

# winnow_fuzzer(NAME name SOURCES files... DEPS targets...)
# One program with LLVMFuzzerTestOneInput in its sources; none without
# WINNOW_FUZZ.
function(winnow_fuzzer)
  if(NOT WINNOW_FUZZ)
    return()
  endif()
  cmake_parse_arguments(FUZZ "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_executable(${FUZZ_NAME} ${FUZZ_SOURCES})
  target_link_libraries(${FUZZ_NAME} PRIVATE ${FUZZ_DEPS} -fsanitize=fuzzer)
endfunction()

# winnow_fuzz_cargo(environment target): the environment in which cargo's build
# tells libFuzzer its coverage too, in Rust and in the C code of crates, and the
# target to build for: without one cargo would instrument its own build scripts.
function(winnow_fuzz_cargo environment target)
  set(rust_flags
      "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3"
      "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
      "-Cllvm-args=-sanitizer-coverage-pc-table"
      "-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1")
  list(JOIN rust_flags " " rust_flags)
  string(REPLACE "clang++" "clang" clang "${CMAKE_CXX_COMPILER}")
  set(${target} ${CMAKE_SYSTEM_PROCESSOR}-unknown-linux-gnu PARENT_SCOPE)
  set(${environment} "RUSTFLAGS=${rust_flags}" "CARGO_PROFILE_RELEASE_LTO=off"
      "CC=${clang}" "CFLAGS=-fsanitize=fuzzer-no-link,address"
      PARENT_SCOPE)
endfunction()
