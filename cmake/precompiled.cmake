# Two precompiled headers, one for the product and one for its tests; nodus_precompile(TARGET KIND) lets a target use
# one. All who share one are compiled with the same options: hence -fPIC for programs too, and the libraries' macros
# for everyone (cmake/dependencies.cmake).
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>") # ccache judges by content

function(nodus_precompiled kind header)
  set(target nodus_precompiled_${kind})
  add_library(${target} OBJECT ${CMAKE_SOURCE_DIR}/cmake/precompiled.cpp)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${ARGN})
  target_precompile_headers(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/${header})
  # The header itself holds paths of this tree. ccache takes this sum for it: what its text comes to, so that every
  # tree shares one cache.
  set(out ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -std=c++2b -E -P -x c++-header -I ${CMAKE_SOURCE_DIR}
      ${CMAKE_SOURCE_DIR}/cmake/${header}
    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(SHA256 sum "${text}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/${header})
  file(WRITE ${out}/cmake_pch.hxx.pch.sum "${sum}\n")
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
endfunction()

# Pure cores, which property tests run through millions of steps: optimised in every preset, so without the header.
function(nodus_optimise target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O1>)
endfunction()
