# Writes policies/plugin_abi.hpp: what a plugin must have been built for, a digest of every header that it may include.
# cmake -DROOT=… -DVERSION=… -DOUT=… -P plugin_abi.cmake; a file that would not change is left alone.
set(all "")
foreach(folder sim hw models traces policies)
  file(GLOB_RECURSE headers RELATIVE ${ROOT} ${ROOT}/${folder}/*.hpp)
  list(SORT headers)
  foreach(header ${headers})
    file(SHA256 ${ROOT}/${header} digest)
    string(APPEND all "${header} ${digest}\n")
  endforeach()
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 12 digest)
set(text "// Made by cmake/plugin_abi.cmake: the version, and a digest of all headers that a plugin may include.
#pragma once

#define ORRERY_PLUGIN_ABI \"${VERSION} (headers ${digest})\"
")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT text STREQUAL old)
  file(WRITE ${OUT} "${text}")
endif()
