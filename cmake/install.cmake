# `cmake --install build/release --prefix PREFIX` and `cpack -G DEB` (docs/learn/install.md). Two components: `runtime` is the
# command, the Python package and the shipped data; `dev` is what a plugin is built against. All places are relative to
# the prefix and to each other, so an installed tree may be moved.
set(ORRERY_PYTHON_FOLDER lib/python3/dist-packages)  # where Debian's interpreter looks, for the prefix /usr
set(ORRERY_DATA_FOLDER share/orrery)                 # sim/base/home.cpp looks for it there

# The command, its manual page and what a shell completes, both told by the command itself.
set(manual ${CMAKE_BINARY_DIR}/share/orrery.1.gz)
set(completion ${CMAKE_BINARY_DIR}/share/orrery.bash)
set(schema ${CMAKE_BINARY_DIR}/share/orrery.schema.json)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share)
add_custom_command(OUTPUT ${manual} ${completion} ${schema}
                   COMMAND $<TARGET_FILE:orrery_command> man | gzip -9n >${manual}
                   COMMAND $<TARGET_FILE:orrery_command> completion bash >${completion}
                   COMMAND ${CMAKE_COMMAND} -E env ORRERY_HOME=${PROJECT_SOURCE_DIR} $<TARGET_FILE:orrery_command> schema >${schema}
                   DEPENDS orrery_command COMMENT "Manual page, completion and schema")
add_custom_target(orrery_texts ALL DEPENDS ${manual} ${completion} ${schema})
install(TARGETS orrery_command RUNTIME DESTINATION bin COMPONENT runtime)
if(TARGET orrery_pagmo)  # sim::module_file() looks for it there
  install(TARGETS orrery_pagmo LIBRARY DESTINATION lib/orrery COMPONENT runtime)
endif()
install(FILES ${manual} DESTINATION share/man/man1 COMPONENT runtime)
install(FILES ${completion} DESTINATION share/bash-completion/completions RENAME orrery COMPONENT runtime)
install(FILES ${schema} DESTINATION ${ORRERY_DATA_FOLDER}/schemas COMPONENT runtime)

# What home_folder() is asked for, as it lies in the source tree.
foreach(folder hw/catalog models/catalog policies/fusion/rules experiments/studies experiments/measured traces/samples)
  get_filename_component(parent ${folder} DIRECTORY)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${ORRERY_DATA_FOLDER}/${parent} COMPONENT runtime)
endforeach()
if(EXISTS ${PROJECT_SOURCE_DIR}/tools/notebooks)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/notebooks DESTINATION ${ORRERY_DATA_FOLDER}/tools COMPONENT runtime)
endif()

# Python: one copy of every package, which the command finds through a link. Not those that only a build runs.
file(GLOB ORRERY_PYTHON_PACKAGES RELATIVE ${PROJECT_SOURCE_DIR}/tools/python ${PROJECT_SOURCE_DIR}/tools/python/orrery_*)
list(REMOVE_ITEM ORRERY_PYTHON_PACKAGES orrery_mutate orrery_reference orrery_sbom orrery_site orrery_stubs orrery_wheel)
foreach(package orrery ${ORRERY_PYTHON_PACKAGES})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/python/${package} DESTINATION ${ORRERY_PYTHON_FOLDER} COMPONENT runtime
          PATTERN __pycache__ EXCLUDE)
endforeach()
if(TARGET orrery_python)
  install(TARGETS orrery_python LIBRARY DESTINATION ${ORRERY_PYTHON_FOLDER}/orrery COMPONENT runtime)
  foreach(made params.py named.pyi questions.pyi _orrery.pyi)
    install(FILES ${CMAKE_BINARY_DIR}/python/orrery/${made} DESTINATION ${ORRERY_PYTHON_FOLDER}/orrery COMPONENT runtime)
  endforeach()
endif()
file(CREATE_LINK ../../../${ORRERY_PYTHON_FOLDER} ${CMAKE_BINARY_DIR}/share/python SYMBOLIC)
install(FILES ${CMAKE_BINARY_DIR}/share/python DESTINATION ${ORRERY_DATA_FOLDER}/tools COMPONENT runtime)
# Debian's interpreter looks into /usr/local/lib/python3.X only.
set(Python_EXECUTABLE ${ORRERY_PYTHON})
find_package(Python 3.9 QUIET COMPONENTS Interpreter)
if(Python_FOUND)
  install(CODE "
    if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr/local\")
      file(WRITE \"\$ENV{DESTDIR}/usr/local/lib/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}/dist-packages/orrery.pth\"
           \"/usr/local/${ORRERY_PYTHON_FOLDER}\\n\")
    endif()" COMPONENT runtime)
endif()

# For plugins: headers, static libraries, find_package(orrery).
foreach(folder sim hw models traces policies)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION include/orrery COMPONENT dev
          FILES_MATCHING PATTERN "*.hpp" PATTERN catalog EXCLUDE PATTERN samples EXCLUDE PATTERN rules EXCLUDE)
endforeach()
# Headers under their old names, for plugins written for 0.1: each includes the one that it became.
file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/moved_headers.txt moved REGEX "^[^#]")
foreach(row IN LISTS moved)
  string(REPLACE " " ";" row ${row})
  list(GET row 0 old)
  list(GET row 1 new)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/moved/${old} @ONLY
       CONTENT "// Moved: this name goes with the next version.\n#pragma once\n#include \"@new@\"\n")
endforeach()
install(DIRECTORY ${CMAKE_BINARY_DIR}/moved/ DESTINATION include/orrery COMPONENT dev)
install(FILES ${CMAKE_BINARY_DIR}/generated/policies/plugin_abi.hpp DESTINATION include/orrery/policies COMPONENT dev)
set(libraries orrery_flags orrery_timeline_proto orrery_import_proto orrery_sim orrery_hw orrery_models orrery_traces
              orrery_policies)
foreach(library IN LISTS libraries)
  string(REPLACE orrery_ "" name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
endforeach()
install(TARGETS ${libraries} EXPORT orrery ARCHIVE DESTINATION lib/orrery COMPONENT dev)
install(EXPORT orrery NAMESPACE orrery:: FILE orrery-targets.cmake DESTINATION lib/cmake/orrery COMPONENT dev)
include(CMakePackageConfigHelpers)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/orrery-config.cmake.in ${CMAKE_BINARY_DIR}/orrery-config.cmake
                              INSTALL_DESTINATION lib/cmake/orrery)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/orrery-config-version.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_BINARY_DIR}/orrery-config.cmake ${CMAKE_BINARY_DIR}/orrery-config-version.cmake
        DESTINATION lib/cmake/orrery COMPONENT dev)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/examples/plugin DESTINATION share/doc/orrery-dev/examples COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian/copyright DESTINATION share/doc/orrery COMPONENT runtime)
# What it is made of, with licences, where Debian's package manager can tell (tools/sbom). Written when it is installed: no
# build waits for it.
find_program(ORRERY_DPKG_QUERY dpkg-query)
if(ORRERY_DPKG_QUERY AND Python_FOUND)
  set(sbom_module)
  if(TARGET orrery_python)
    set(sbom_module "--module $<TARGET_FILE:orrery_python>")
  endif()
  install(CODE "
    set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/orrery\")
    file(MAKE_DIRECTORY \"\${folder}\")
    message(STATUS \"Installing: \${folder}/orrery.spdx.json\")
    execute_process(COMMAND \${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1 ${ORRERY_PYTHON}
                            ${PROJECT_SOURCE_DIR}/tools/python/orrery_sbom --orrery $<TARGET_FILE:orrery_command>
                            ${sbom_module} --out \"\${folder}/orrery.spdx.json\"
                    COMMAND_ERROR_IS_FATAL ANY)" COMPONENT runtime)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian/copyright DESTINATION share/doc/orrery-dev COMPONENT dev)

include(${PROJECT_SOURCE_DIR}/cmake/debian.cmake)
