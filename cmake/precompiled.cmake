# Two precompiled headers, one for the product and one for its tests; nodus_precompile(TARGET KIND) lets a target use
# one. All who share one are compiled with the same options: hence -fPIC for programs too, and the libraries' macros
# for everyone (cmake/dependencies.cmake).
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>") # ccache judges by content
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # CMake would also -include the header itself, which does nothing but put an absolute path into what ccache hashes.
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)
endif()

set(NODUS_CODE_ONCE FALSE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(NODUS_CODE_ONCE TRUE) # an optimiser would go over that code in each file again
  add_link_options(-Wl,--gc-sections) # of that code, what a program does not use (and the library may not even have)
endif()

function(nodus_precompiled kind header)
  set(target nodus_precompiled_${kind})
  add_library(${target} OBJECT ${CMAKE_SOURCE_DIR}/cmake/precompiled.cpp)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${ARGN})
  target_precompile_headers(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${header})
  # The header itself holds paths of this tree. ccache takes this sum for it: what its text comes to.
  set(out ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir)
  set(preprocess ${CMAKE_CXX_COMPILER} -std=c++2b -x c++-header -I ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/cmake/${header})
  execute_process(COMMAND ${preprocess} -E -P -dD OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${preprocess} -MM OUTPUT_VARIABLE ours COMMAND_ERROR_IS_FATAL ANY)
  string(SHA256 sum "${text} ${NODUS_CODE_ONCE}")
  string(REGEX MATCHALL "[^ \\\n]+\\.hpp" ours "${ours}") # no path in the expression: it may hold a "+"
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ours})
  file(WRITE ${out}/cmake_pch.hxx.pch.sum "${sum}\n")
  if(NODUS_CODE_ONCE)
    nodus_code_once(${kind})
  endif()
endfunction()

# The code of the header's inline functions and templates, compiled once a build and not in each file that uses it. The
# tests' header is made on top of the product's, so that it holds no more than what it adds.
function(nodus_code_once kind)
  set(pch ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/nodus_precompiled_${kind}.dir/cmake_pch.hxx.pch)
  set(base ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/nodus_precompiled_product.dir/cmake_pch.hxx.pch)
  target_compile_options(nodus_precompiled_${kind} PRIVATE "SHELL:-Xclang -fmodules-codegen" -DNODUS_CODE_ONCE)
  if(NOT kind STREQUAL "product")
    string(REGEX REPLACE "\\.pch$" ".cxx" source ${pch})
    set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${base}
      COMPILE_OPTIONS "-Xclang;-include-pch;-Xclang;${base}")
  endif()
  set_source_files_properties(${pch} PROPERTIES GENERATED ON LANGUAGE CXX OBJECT_DEPENDS ${pch}
    COMPILE_OPTIONS "-x;none;-ffunction-sections;-fdata-sections;-Wno-unused-command-line-argument")
  add_library(nodus_precompiled_${kind}_code STATIC ${pch})
  add_dependencies(nodus_precompiled_${kind}_code nodus_precompiled_${kind})
  if(NOT kind STREQUAL "product")
    target_link_libraries(nodus_precompiled_${kind}_code PRIVATE nodus_precompiled_product_code)
  endif()
endfunction()

nodus_precompiled(product precompiled.hpp fmt::fmt Boost::json PkgConfig::pqxx protobuf::libprotobuf)
nodus_precompiled(tests precompiled_test.hpp fmt::fmt Boost::json PkgConfig::pqxx protobuf::libprotobuf GTest::gmock)

function(nodus_precompile target kind)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF) # that would be -fPIE
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC>)
  endif()
  target_precompile_headers(${target} REUSE_FROM nodus_precompiled_${kind})
  if(NODUS_CODE_ONCE)
    target_link_libraries(${target} PRIVATE nodus_precompiled_${kind}_code)
  endif()
endfunction()
