# Shared build rules: flags that every target of the project gets, and the three kinds of target it has.

add_library(orrery_flags INTERFACE)
target_compile_features(orrery_flags INTERFACE cxx_std_20)
# -ffp-contract=off keeps the results equal on processors with and without fused multiply-add.
# Off: designated initialisers leave defaults out on purpose; g++ 12 sees overlap in string sums (GCC bug 105651).
target_compile_options(orrery_flags INTERFACE
  "$<BUILD_INTERFACE:-Wall;-Wextra;-Wno-missing-field-initializers;-Wno-restrict;-Wconversion;-Wshadow>" -ffp-contract=off)
target_include_directories(orrery_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/orrery>)
if(ORRERY_PYTHON_PACKAGE)  # code of libraries calls its own functions as directly as that of programs
  target_compile_options(orrery_flags INTERFACE -fno-semantic-interposition)
endif()
target_link_options(orrery_flags INTERFACE LINKER:--build-id=sha1)  # what a run says it was made by
if(ORRERY_WERROR)
  target_compile_options(orrery_flags INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
if(ORRERY_SANITIZE)
  target_compile_options(orrery_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(orrery_flags INTERFACE -fsanitize=address,undefined)
endif()

# orrery_folder(NAME SOURCES ... DEPENDS ... ALONE ...): the static library of one folder. ORRERY_UNITY neighbours of the
# list are compiled at a time, because most of a file's time goes to headers that they share; names in unnamed namespaces
# are therefore a folder's. Files of ALONE, which use a neighbour's names for other things, are compiled by themselves.
function(orrery_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;ALONE" ${ARGN})
  add_library(orrery_${name} STATIC ${ARG_SOURCES})
  add_library(orrery::${name} ALIAS orrery_${name})
  target_link_libraries(orrery_${name} PUBLIC orrery_flags ${ARG_DEPENDS})
  if(ORRERY_UNITY LESS_EQUAL 1)
    return()
  endif()
  set_target_properties(orrery_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set(index 0)
  foreach(source IN LISTS ARG_SOURCES)
    math(EXPR group "${index} / ${ORRERY_UNITY}")
    math(EXPR index "${index} + 1")
    if(NOT source IN_LIST ARG_ALONE)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
endfunction()

# orrery_test(NAME SOURCES ... DEPENDS ...): one Catch2 program a folder, registered as two ctest entries: everything but
# the cases tagged [slow] (label "default"), and those alone (label "slow").
function(orrery_test name)
  cmake_parse_arguments(ARG "SLOW" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE orrery_flags orrery_catch_main ${ARG_DEPENDS})
  target_compile_options(test_${name} PRIVATE -O1)  # of the tests alone: they are compiled often and run for seconds
  target_compile_definitions(test_${name} PRIVATE ORRERY_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                  ORRERY_SHARED_DIR="${PROJECT_SOURCE_DIR}/../shared"
                                                  ORRERY_COMMAND="${CMAKE_BINARY_DIR}/orrery")
  add_test(NAME ${name} COMMAND test_${name} "~[slow]" WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "default")
  if(ARG_SLOW)
    add_test(NAME ${name}_slow COMMAND test_${name} "[slow]" WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    set_tests_properties(${name}_slow PROPERTIES LABELS "slow")
  endif()
endfunction()
