# What `cmake --install` puts where, and how others find it: headers, libferrule, programs, a CMake package and a
# pkg-config file. The prefix can be moved as a whole: every path is relative to the file that holds it.
# (The Python package is a component of its own, which only wheels ask for.)

include(CMakePackageConfigHelpers)
set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ferrule)

# Only the C functions are to be seen: also templates of other libraries stay inside.
set(exports ${CMAKE_CURRENT_LIST_DIR}/ferrule.map)
target_link_options(ferrule PRIVATE "LINKER:--version-script=${exports}")
set_target_properties(ferrule PROPERTIES LINK_DEPENDS ${exports} INSTALL_RPATH_USE_LINK_PATH ON)

install(TARGETS ferrule EXPORT ferrule-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ferrule DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET ferrule-bench)  # its install rule is beside it
  file(RELATIVE_PATH to_library /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(ferrule-bench PROPERTIES INSTALL_RPATH "$ORIGIN/${to_library}")
endif()

# find_package(ferrule CONFIG REQUIRED) -> ferrule::ferrule. Before 1.0 a minor version may change the interface.
install(EXPORT ferrule-targets NAMESPACE ferrule:: DESTINATION ${cmake_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ferrule-config.cmake.in ferrule-config.cmake
                              INSTALL_DESTINATION ${cmake_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(ferrule-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ferrule-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/ferrule-config-version.cmake DESTINATION ${cmake_folder})

file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/ferrule.pc.in ferrule.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ferrule.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
