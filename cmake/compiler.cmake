# clang 19 is the reference compiler. g++ before 13 miscompiles C++20 coroutines (temporaries in a full expression
# with co_await are destroyed twice), so it is refused rather than left to crash at run time. See docs/adr/0001.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR "g++ ${CMAKE_CXX_COMPILER_VERSION} miscompiles C++20 coroutines; use clang++-19 (cmake --preset dev).")
endif()
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(NODUS_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them")
option(NODUS_WERROR "Warnings are errors" ON)

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers
  -fno-omit-frame-pointer)
if(NODUS_WERROR)
  add_compile_options(-Werror)
endif()
add_compile_options(-gline-tables-only) # stack traces name lines; nobody waits for more than that
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_options(-O0) # the sanitizers' checks would take the optimiser longer than they take the tests
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()
if(NODUS_SANITIZE)
  add_compile_options(-fsanitize=${NODUS_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${NODUS_SANITIZE})
endif()
add_link_options(-fuse-ld=lld)

find_program(CCACHE ccache)
if(CCACHE)
  # Paths are hashed relative to the tree, so that every build directory shares one cache.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_PCH_EXTSUM=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()
