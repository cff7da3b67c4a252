# The Debian package (make deb): the installed files, below /usr.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME winnow)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
    "LLM inference that reads only the KV cache that matters")
set(CPACK_PACKAGE_DESCRIPTION
    "Runs and serves large language models (Llama, Qwen, Mistral, MiniCPM4)
with sparse attention over a paged KV cache, behind an HTTP interface like
OpenAI's. A model's folder is what Hugging Face has: safetensors,
configuration, tokenizer. The service winnow@NAME serves one model.")
set(CPACK_STRIP_FILES ON)

# The unit names the path of the program, not that of a folder for packing.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)

set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Winnow <winnow@localhost>")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${packaging}/deb/postinst ${packaging}/deb/prerm ${packaging}/deb/postrm)
set(CPACK_PRE_BUILD_SCRIPTS ${packaging}/deb/stage.cmake)
include(CPack)
