# Headers, libraries, the CMake package and the pkg-config file.
include(CMakePackageConfigHelpers)

install(TARGETS edgert_shared edgert_static EXPORT edgertTargets)
if(EDGERT_BUILD_EMULATOR)
  install(TARGETS cuda-emulator LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/edgert DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/edgert)
install(EXPORT edgertTargets NAMESPACE edgert:: DESTINATION ${package_dir})
configure_package_config_file(cmake/edgertConfig.cmake.in edgertConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(edgertConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/edgertConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/edgertConfigVersion.cmake
        DESTINATION ${package_dir})

file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /) # so that the installation can be moved
configure_file(cmake/edgert.pc.in edgert.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/edgert.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
