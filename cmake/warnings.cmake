# Warnings every target of ours is built with; errors in every preset.
add_library(ebb_warnings INTERFACE)
target_compile_options(ebb_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wold-style-cast
  -Wimplicit-fallthrough -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC reports reads inside std::variant and fmt buffers that cannot happen.
  target_compile_options(ebb_warnings INTERFACE -Wno-maybe-uninitialized)
endif()
