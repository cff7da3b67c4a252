# What `cmake --install` puts where, the documents that are made for it from the
# program's own help, and the Debian package of the same files (cpack).
set(packaging ${PROJECT_SOURCE_DIR}/packaging)
set(made ${PROJECT_BINARY_DIR}/packaging)

add_custom_command(
  OUTPUT ${made}/winnow.1 ${made}/winnow.bash ${made}/_winnow
         ${made}/winnow.fish
  COMMAND Python3::Interpreter ${packaging}/documents.py $<TARGET_FILE:winnow>
          ${made}
  DEPENDS winnow ${packaging}/documents.py ${packaging}/program_help.py
          ${packaging}/man_page.py ${packaging}/completion.py
  VERBATIM)

set(notices ${made}/third-party-notices.txt)
set(cuda_notice)
if(WINNOW_CUDA)
  set(cuda_notice --cuda ${cuda_root})
endif()
set(crate ${PROJECT_SOURCE_DIR}/src/text/rust)
add_custom_command(
  OUTPUT ${notices}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${made}
  COMMAND Python3::Interpreter ${packaging}/notices.py
          --cargo ${WINNOW_CARGO} --crate ${crate}/Cargo.toml
          --compiler ${CMAKE_CXX_COMPILER} --onednn ${WINNOW_ONEDNN_DIR}
          ${cuda_notice} ${notices}
  # The sources, with their notices, are there when the libraries are.
  DEPENDS winnow_text_cargo winnow_onednn ${packaging}/notices.py
          ${crate}/Cargo.lock ${PROJECT_SOURCE_DIR}/third_party/onednn/Cargo.lock
  VERBATIM)
add_custom_target(documents ALL DEPENDS ${made}/winnow.1 ${notices})

install(TARGETS winnow RUNTIME DESTINATION bin)
install(FILES ${made}/winnow.1 DESTINATION share/man/man1)
install(FILES ${made}/winnow.bash
        DESTINATION share/bash-completion/completions RENAME winnow)
install(FILES ${made}/_winnow DESTINATION share/zsh/site-functions)
install(FILES ${made}/winnow.fish DESTINATION share/fish/vendor_completions.d)
install(FILES README.md LICENSE docs/install.md docs/selectors.md
              docs/selectors.svg ${packaging}/serve.env ${notices}
        DESTINATION share/doc/winnow)

# The unit names the program's path, which is known when it is installed.
install(
  CODE "
    string(REPLACE \"%\" \"%%\" WINNOW_UNIT_BINDIR
           \"\${CMAKE_INSTALL_PREFIX}/bin\")
    set(unit \"\${CMAKE_INSTALL_PREFIX}/lib/systemd/system/winnow@.service\")
    message(STATUS \"Installing: \$ENV{DESTDIR}\${unit}\")
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/systemd/system\"
         TYPE DIRECTORY FILES)
    configure_file(\"${packaging}/winnow@.service.in\"
      \"\$ENV{DESTDIR}\${unit}\" @ONLY FILE_PERMISSIONS
      OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${unit}\")")

include(WinnowDeb)
