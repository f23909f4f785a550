# `cpack -G DEB` in the build folder: orrery_VERSION_amd64.deb and orrery-dev_VERSION_amd64.deb.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME orrery)
set(CPACK_PACKAGE_VENDOR "The Orrery authors")
set(CPACK_PACKAGE_CONTACT "The Orrery authors <orrery@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME orrery)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Replays traces of requests on models of machines, and tells latency,
throughput, energy and memory; explores designs and policies. The command,
the Python package, catalogs of parts and models, and studies.")
if(TARGET orrery_python)  # a module for one version of the interpreter
  math(EXPR next "${Python_VERSION_MINOR} + 1")
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS
      "python3 (>= 3.${Python_VERSION_MINOR}), python3 (<< 3.${next}), python3-numpy, python3-pandas")
endif()
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "python3-matplotlib, python3-plotly, python3-scipy")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "orrery-dev, python3-distributed, coinor-cbc, python3-optuna, bash-completion")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/postinst
                                               ${PROJECT_SOURCE_DIR}/cmake/debian/prerm)

set(CPACK_DEBIAN_DEV_PACKAGE_NAME orrery-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
    "g++, libboost-dev, libfmt-dev, libpcg-cpp-dev, libprotobuf-dev, libsimdjson-dev, libzstd-dev, nlohmann-json3-dev, pkg-config, protobuf-compiler, zlib1g-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "orrery (= ${PROJECT_VERSION}), cmake")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers and libraries: what a policy is built against outside of Orrery's
source tree, to be loaded by its command or its Python package.")
# Files of a package carry the time of the commit, not that of the build, so that the same tree gives the same bytes.
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/package_time.cmake)
include(CPack)
