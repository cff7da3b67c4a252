# onednn::onednn: oneDNN with its matrix product alone (third_party/onednn),
# built once for all presets by that folder's script, beside our own sources.
# It takes no sanitizer and no flag of ours.
#
# Include this where the target is used: a source that includes its headers is
# named to winnow_needs_onednn(), so that no other one waits for it.
set(WINNOW_ONEDNN_DIR ${PROJECT_SOURCE_DIR}/build/onednn
    CACHE PATH "Where oneDNN is built and installed")
set(onednn_library ${WINNOW_ONEDNN_DIR}/lib/libdnnl.a)
set(onednn_source ${PROJECT_SOURCE_DIR}/third_party/onednn)

add_custom_command(
  OUTPUT ${onednn_library}
  COMMAND ${onednn_source}/build ${WINNOW_ONEDNN_DIR}
  DEPENDS ${onednn_source}/build ${onednn_source}/Cargo.lock
          ${onednn_source}/sources_dropped.txt
          ${onednn_source}/join_sources.cmake
  COMMENT "Building oneDNN (two minutes, the first time)"
  VERBATIM)
add_custom_target(winnow_onednn DEPENDS ${onednn_library})

# CMake wants the folder to be there when it reads this.
file(MAKE_DIRECTORY ${WINNOW_ONEDNN_DIR}/include)
add_library(onednn::onednn STATIC IMPORTED GLOBAL)
set_target_properties(
  onednn::onednn
  PROPERTIES IMPORTED_LOCATION ${onednn_library}
             INTERFACE_INCLUDE_DIRECTORIES ${WINNOW_ONEDNN_DIR}/include)
# What a product does not reach is left out of the program.
target_link_options(onednn::onednn INTERFACE -Wl,--gc-sections)
target_link_libraries(onednn::onednn INTERFACE Threads::Threads
                                               ${CMAKE_DL_LIBS})

# Compiles `source` of this folder, alone, after the library has been installed.
function(winnow_needs_onednn source)
  set_source_files_properties(
    ${source} PROPERTIES OBJECT_DEPENDS ${onednn_library}
                         SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
