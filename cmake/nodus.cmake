# nodus_library(NAME SOURCES... DEPS targets...)   a library nodus_<NAME>; includes are from the repository root.
# nodus_binary(NAME SOURCES... DEPS targets...)    a program.
# nodus_test(NAME SOURCES... DEPS targets... [LABELS ...] [TIMEOUT seconds])   a GoogleTest program, one ctest a program;
#                                                the label is that of its folder (unit, integration, system).
function(nodus_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_library(nodus_${name} STATIC ${arg_SOURCES})
  target_include_directories(nodus_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(nodus_${name} PUBLIC ${arg_DEPS})
endfunction()

function(nodus_binary name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

function(nodus_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_LABELS AND CMAKE_CURRENT_SOURCE_DIR MATCHES "/tests/(unit|integration|system)/")
    set(arg_LABELS ${CMAKE_MATCH_1})
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()
