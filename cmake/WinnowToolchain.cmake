# Language, warnings, sanitizers and the linker, the same for every module.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# -ffp-contract=off: a product and a sum are fused only where the source says
# so; otherwise bits would depend on what the compiler inlined.
# -Wno-restrict: g++ 12 warns of its own std::string (its bug 105651).
set(winnow_warnings -Wall -Wextra -Wshadow -Werror)
# -fmacro-prefix-map: joined sources (WinnowModule.cmake) have absolute names, which
# a CHECK would tell, and ccache would not find in another checkout.
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CXX>:${winnow_warnings};-Wpedantic;-Wno-restrict>"
  "$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;-fno-math-errno>"
  "$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>")
add_link_options(-static-libstdc++ -static-libgcc)

find_program(WINNOW_CCACHE ccache)
if(WINNOW_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${WINNOW_CCACHE})
endif()
find_program(WINNOW_MOLD mold)
if(WINNOW_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# What a sanitizer adds makes g++ 13 warn of array bounds in fmt's own headers, and
# g++ 12 of a moved Result that "may be uninitialized" where sources are joined.
if(WINNOW_SANITIZE)
  add_compile_options(-fsanitize=${WINNOW_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all
                      -Wno-error=array-bounds -Wno-error=maybe-uninitialized)
  add_link_options(-fsanitize=${WINNOW_SANITIZE})
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
