# versioned_library(NAME SONAME so MAP file SOURCES file... USES layer... LINKS library...)
#
# A shared library whose exported names are those of its version script. It stays
# loaded for ever: verbs are called from other people's exit handlers.
function(versioned_library NAME)
	cmake_parse_arguments(V "" "SONAME;MAP" "SOURCES;USES;LINKS" ${ARGN})
	set(room ${PROJECT_BINARY_DIR}/layers/${NAME})
	file(MAKE_DIRECTORY ${room})
	foreach(part IN LISTS V_USES)
		string(REGEX REPLACE "^link_.*" "link" folder ${part})
		file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${folder} ${room}/${folder} SYMBOLIC)
	endforeach()
	file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${NAME} ${room}/${NAME} SYMBOLIC)
	add_library(${NAME} SHARED ${V_SOURCES})
	target_include_directories(${NAME} PRIVATE ${room})
	target_link_libraries(${NAME} PRIVATE ${V_USES} ${V_LINKS})
	target_link_options(${NAME} PRIVATE
		-Wl,--version-script=${V_MAP} -Wl,-z,nodelete -Wl,--no-undefined -Wl,-Bsymbolic)
	set_property(TARGET ${NAME} APPEND PROPERTY LINK_DEPENDS ${V_MAP})
	string(REGEX REPLACE "^lib(.*)\\.so\\.([0-9]+)$" "\\1" stem ${V_SONAME})
	set_target_properties(${NAME} PROPERTIES OUTPUT_NAME ${stem} SOVERSION 1
		LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endfunction()
