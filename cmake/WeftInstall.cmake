# What `make install` puts down: the weft program, one static library a folder, their headers, the data
# files, and a package, so that another project needs only
#   find_package(weft REQUIRED)
#   target_link_libraries(app PRIVATE weft::weft)
# weft::weft is all folders at once; weft::base, weft::mesh, ... are there one by one.

include(CMakePackageConfigHelpers)

get_property(weft_libraries GLOBAL PROPERTY WEFT_LIBRARIES)
add_library(weft INTERFACE)
add_library(weft::weft ALIAS weft)
target_link_libraries(weft INTERFACE ${weft_libraries} nlohmann_json::nlohmann_json)
target_compile_features(weft INTERFACE cxx_std_20)

set(weft_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weft)

install(TARGETS weft ${weft_libraries} EXPORT weftTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${weft_package_folder})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
        PATTERN "*_test.h" EXCLUDE)
foreach(data clusters workloads)
  if(EXISTS ${CMAKE_SOURCE_DIR}/${data})
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/${data} DESTINATION ${CMAKE_INSTALL_DATADIR}/weft
            FILES_MATCHING PATTERN "*.json")
  endif()
endforeach()
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET weft_cli)
  install(TARGETS weft_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/weftConfig.cmake.in ${CMAKE_BINARY_DIR}/weftConfig.cmake
                              INSTALL_DESTINATION ${weft_package_folder})
# Before 1.0 every minor version may change the face.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weftConfig.cmake ${CMAKE_BINARY_DIR}/weftConfigVersion.cmake
        DESTINATION ${weft_package_folder})
