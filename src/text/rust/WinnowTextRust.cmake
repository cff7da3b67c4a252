# winnow_text_rust: the library of this folder, built by cargo once for all
# presets. The fuzz build instruments it, and so has one of its own.

find_program(WINNOW_CARGO cargo HINTS ${PROJECT_SOURCE_DIR}/.tools/bin
                                      $ENV{HOME}/.cargo/bin REQUIRED)
set(crate ${CMAKE_CURRENT_SOURCE_DIR}/rust)
set(cargo_environment "")
set(cargo_options "")
set(target_dir ${PROJECT_SOURCE_DIR}/build/rust)
set(library ${target_dir}/release/libwinnow_text.a)
if(WINNOW_FUZZ)
  winnow_fuzz_cargo(cargo_environment cargo_target)
  set(cargo_options --target ${cargo_target})
  set(target_dir ${PROJECT_SOURCE_DIR}/build/rust-fuzz)
  set(library ${target_dir}/${cargo_target}/release/libwinnow_text.a)
endif()

file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${crate}/src/*.rs)
add_custom_command(
  OUTPUT ${library}
  COMMAND ${CMAKE_COMMAND} -E env ${cargo_environment} ${WINNOW_CARGO} build
          --quiet --release --locked --manifest-path ${crate}/Cargo.toml
          --target-dir ${target_dir} ${cargo_options}
  # cargo leaves a library that is up to date as old as it is.
  COMMAND ${CMAKE_COMMAND} -E touch ${library}
  DEPENDS ${sources} ${crate}/Cargo.toml ${crate}/Cargo.lock
  COMMENT "Building the Rust library of src/text (a minute or two)"
  VERBATIM)
add_custom_target(winnow_text_cargo DEPENDS ${library})

# INTERFACE, not IMPORTED: its name is then as global as any module's.
add_library(winnow_text_rust INTERFACE)
add_dependencies(winnow_text_rust winnow_text_cargo)
target_include_directories(winnow_text_rust INTERFACE ${crate})
target_link_libraries(winnow_text_rust INTERFACE ${library} Threads::Threads
                                                 ${CMAKE_DL_LIBS} m)
