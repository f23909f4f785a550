# Shared build rules: flags that every target of the project gets, and the three kinds of target it has.

add_library(orrery_flags INTERFACE)
target_compile_features(orrery_flags INTERFACE cxx_std_20)
# -ffp-contract=off keeps the results equal on processors with and without fused multiply-add.
# Off: designated initialisers leave defaults out on purpose; g++ 12 sees overlap in string sums (GCC bug 105651).
target_compile_options(orrery_flags INTERFACE
  "$<BUILD_INTERFACE:-Wall;-Wextra;-Wno-missing-field-initializers;$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>;-Wconversion;-Wshadow>" -ffp-contract=off)
target_include_directories(orrery_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/orrery>)
# The compiler's memory is collected once it holds 2 GB, not some 100 MB: a sixth of a large unit's time.
target_compile_options(orrery_flags INTERFACE "$<BUILD_INTERFACE:$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-heapsize=2000000>>")
if(ORRERY_PYTHON_PACKAGE)  # code of libraries calls its own functions as directly as that of programs
  target_compile_options(orrery_flags INTERFACE -fno-semantic-interposition)
endif()
target_link_options(orrery_flags INTERFACE LINKER:--build-id=sha1)  # what a run says it was made by
if(ORRERY_WERROR)
  target_compile_options(orrery_flags INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
if(ORRERY_SANITIZE)
  # g++ 12 takes an empty optional of Boost.Graph for read before it was set, once sanitizers are in between.
  target_compile_options(orrery_flags INTERFACE -Wno-maybe-uninitialized)
  target_compile_options(orrery_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(orrery_flags INTERFACE -fsanitize=address,undefined)
endif()
# Both steps in one build folder: a profile is found by the path of the object file. Threads that count at once may lose counts.
if(ORRERY_PROFILE STREQUAL "record")
  target_compile_options(orrery_flags INTERFACE $<BUILD_INTERFACE:-fprofile-generate=${PROJECT_BINARY_DIR}/profile>)
  target_link_options(orrery_flags INTERFACE $<BUILD_INTERFACE:-fprofile-generate=${PROJECT_BINARY_DIR}/profile>)
elseif(ORRERY_PROFILE STREQUAL "use")
  target_compile_options(orrery_flags INTERFACE
    "$<BUILD_INTERFACE:-fprofile-use=${PROJECT_BINARY_DIR}/profile;-fprofile-correction;-Wno-missing-profile;-Wno-coverage-mismatch>")
elseif(NOT ORRERY_PROFILE STREQUAL "")
  message(FATAL_ERROR "ORRERY_PROFILE: expected record, use or nothing, got '${ORRERY_PROFILE}'")
endif()

# Headers that nine files in ten include come out of a file that the compiler made once (0.9 s a unit): one for libraries,
# one for programs, whose code is made for other addresses. Where each file is compiled by itself there is none, so
# ORRERY_UNITY=1 tells whether a file includes what it uses. The compiler refuses it (-Winvalid-pch) where a macro differs.
set(ORRERY_COMMON_HEADERS <fmt/format.h> <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <map>
  <memory> <numeric> <optional> <set> <span> <sstream> <stdexcept> <string> <string_view> <unordered_map> <utility> <variant>
  <vector>)
function(orrery_common_headers target kind)
  if(ORRERY_UNITY LESS_EQUAL 1 OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT CMAKE_BUILD_TYPE MATCHES "^Rel"
     OR NOT ORRERY_PROFILE STREQUAL "")
    return()
  endif()
  if(NOT TARGET orrery_headers_of_${kind})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers_of_${kind}.cpp CONTENT "// The compiled headers stand beside this.\n")
    add_library(orrery_headers_of_${kind} OBJECT ${PROJECT_BINARY_DIR}/headers_of_${kind}.cpp)
    set_target_properties(orrery_headers_of_${kind} PROPERTIES CXX_CLANG_TIDY "")
    if(kind STREQUAL "programs")
      set_target_properties(orrery_headers_of_${kind} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(orrery_headers_of_${kind} PRIVATE $<$<BOOL:${ORRERY_PYTHON_PACKAGE}>:-fPIE>)
    endif()
    target_link_libraries(orrery_headers_of_${kind} PRIVATE orrery_flags fmt::fmt)
    target_precompile_headers(orrery_headers_of_${kind} PRIVATE ${ORRERY_COMMON_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM orrery_headers_of_${kind})
  # What g++ 12 sees in the library's strings and functions once they come out of such a file; other builds warn of it.
  target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
                                           $<$<STREQUAL:${kind},programs>:-Wno-maybe-uninitialized>)
endfunction()

# orrery_units(TARGET SIZE [ALONE ...]): compiles the files of a target several at a time, because most of a file's time
# goes to headers that its neighbours include too. A unit holds files of one folder, SIZE at most on average, and a file's
# unit follows from its name: a new file changes the unit that it comes into, and no other until the folder needs one unit
# more. Names in unnamed namespaces are therefore a folder's. Files of ALONE are compiled by themselves.
function(orrery_units target size)
  cmake_parse_arguments(ARG "" "" "ALONE" ${ARGN})
  if(ORRERY_UNITY LESS_EQUAL 1)
    return()
  endif()
  if(ORRERY_UNITY GREATER 99)
    set(size ${ORRERY_UNITY})
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(REMOVE_ITEM sources ${ARG_ALONE})
  set(folders "")
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    string(REPLACE "${PROJECT_SOURCE_DIR}/" "" folder "${folder}")
    string(MAKE_C_IDENTIFIER "in_${folder}" folder)
    list(APPEND folders ${folder})
    list(APPEND files_${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    list(LENGTH files_${folder} count)
    math(EXPR units "(${count} + ${size} - 1) / ${size}")
    foreach(source IN LISTS files_${folder})
      get_filename_component(file ${source} NAME)
      string(MD5 hash ${file})
      string(SUBSTRING ${hash} 0 7 hash)
      math(EXPR unit "0x${hash} % ${units}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${unit})
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# orrery_sources(OUT EXCEPT ...): every .cpp of this folder and of those below it that are no target of their own. A new file
# is found by the next build.
function(orrery_sources out)
  cmake_parse_arguments(ARG "" "" "EXCEPT" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cpp)
  file(GLOB_RECURSE own CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} */CMakeLists.txt)
  foreach(folder IN LISTS own)
    get_filename_component(folder ${folder} DIRECTORY)
    list(FILTER sources EXCLUDE REGEX "^${folder}/")
  endforeach()
  if(ARG_EXCEPT)
    list(REMOVE_ITEM sources ${ARG_EXCEPT})
  endif()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# orrery_folder(NAME [COLD [FOLDER ...]] [WARM [FOLDER ...]] [EXCEPT ...] [ALONE ...] DEPENDS ...): the static library of a
# folder. What runs in a simulation's inner loops is compiled with -O3. COLD files read, check, describe or fit, once a run or
# less: -Og, three fifths of the time. WARM ones rewrite graphs or learn: -O2, as fast by our benchmarks. Numbers are the same
# at every level. (Of an inline function that several levels emit, the linker keeps one.) Without folders the whole library
# is meant.
function(orrery_folder name)
  cmake_parse_arguments(ARG "" "UNIT" "COLD;WARM;EXCEPT;DEPENDS;ALONE" ${ARGN})
  orrery_sources(sources EXCEPT ${ARG_EXCEPT})
  if(NOT ARG_UNIT)
    set(ARG_UNIT 24)
  endif()
  set(cold_option -Og)
  set(warm_option -O2)
  if(ORRERY_FUZZ AND NOT name MATCHES "^(sim|hw|models|traces|policies)$")
    set(cold_option -O0)  # under sanitizers clang takes a third of the time; what parses stands below
    set(warm_option -O0)
  endif()
  foreach(level cold warm)
    string(TOUPPER ${level} keyword)
    set(${level} "")
    foreach(folder IN LISTS ARG_${keyword})
      set(found ${sources})
      if(folder STREQUAL ".")
        list(FILTER found INCLUDE REGEX "^[^/]+$")
      else()
        list(FILTER found INCLUDE REGEX "^${folder}/")
      endif()
      if(NOT found)
        message(FATAL_ERROR "${name}: no file in the folder '${folder}' of ${keyword}")
      endif()
      list(APPEND ${level} ${found})
    endforeach()
    list(REMOVE_ITEM sources ${${level}} "")
  endforeach()
  add_library(orrery_${name} STATIC ${sources})
  add_library(orrery::${name} ALIAS orrery_${name})
  target_link_libraries(orrery_${name} PUBLIC orrery_flags ${ARG_DEPENDS})
  orrery_units(orrery_${name} ${ARG_UNIT} ALONE ${ARG_ALONE})
  orrery_common_headers(orrery_${name} libraries)
  foreach(level cold warm)
    string(TOUPPER ${level} keyword)
    if(${level})
      add_library(orrery_${name}_${level} OBJECT ${${level}})
      target_link_libraries(orrery_${name}_${level} PUBLIC orrery_flags ${ARG_DEPENDS})
      target_compile_options(orrery_${name}_${level} PRIVATE ${${level}_option})
      orrery_units(orrery_${name}_${level} ${ARG_UNIT} ALONE ${ARG_ALONE})
      orrery_common_headers(orrery_${name}_${level} libraries)
      target_sources(orrery_${name} PRIVATE $<TARGET_OBJECTS:orrery_${name}_${level}>)
    elseif(${keyword} IN_LIST ARGN)
      target_compile_options(orrery_${name} PRIVATE ${${level}_option})
    endif()
  endforeach()
endfunction()

# orrery_test(NAME [SLOW] [EXCEPT ...] DEPENDS ...): one Catch2 program a folder, registered as two ctest entries: everything but
# the cases tagged [slow] (label "default"), and those alone (label "slow"). Its files are compiled nine at a time, so the
# names of each stand in a namespace of its own.
function(orrery_test name)
  cmake_parse_arguments(ARG "SLOW" "" "EXCEPT;DEPENDS;ALONE" ${ARGN})
  orrery_sources(sources EXCEPT ${ARG_EXCEPT})
  add_executable(test_${name} ${sources})
  orrery_units(test_${name} 9 ALONE ${ARG_ALONE})
  orrery_common_headers(test_${name} programs)
  target_link_libraries(test_${name} PRIVATE orrery_flags orrery_catch_main ${ARG_DEPENDS})
  target_compile_options(test_${name} PRIVATE -Og)  # of the tests alone: they are compiled often and run for seconds
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
