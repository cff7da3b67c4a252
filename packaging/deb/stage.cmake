# What Debian wants otherwise than `cmake --install` has it: its own copyright
# file in place of a licence's text, a changelog, both manual and changelog
# compressed.
set(documents ${CPACK_TEMPORARY_DIRECTORY}/usr/share/doc/winnow)
file(REMOVE ${documents}/LICENSE)
file(COPY ${CMAKE_CURRENT_LIST_DIR}/copyright DESTINATION ${documents}
     FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)

execute_process(
  COMMAND git -C ${CMAKE_CURRENT_LIST_DIR} log -1 --format=%cD
  OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT date)
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
endif()
file(WRITE ${documents}/changelog
     "winnow (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
     "  * What it can and cannot: README.md.\n\n"
     " -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}\n")
file(CHMOD ${documents}/changelog
     PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)

execute_process(
  COMMAND gzip -9nf ${documents}/changelog
          ${CPACK_TEMPORARY_DIRECTORY}/usr/share/man/man1/winnow.1
  COMMAND_ERROR_IS_FATAL ANY)
