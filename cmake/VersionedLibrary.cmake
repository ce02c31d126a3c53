# versioned_library(NAME SONAME so MAP file SOURCES file... USES layer... SEES layer...
#	LINKS library...)
#
# A shared library whose exported names are those of its version script. It stays
# loaded for ever: verbs are called from other people's exit handlers. Of layers that it SEES it
# includes headers; their code is in a library that it LINKS.
function(versioned_library NAME)
	cmake_parse_arguments(V "" "SONAME;MAP" "SOURCES;USES;SEES;LINKS" ${ARGN})
	set(room ${PROJECT_BINARY_DIR}/layers/${NAME})
	file(MAKE_DIRECTORY ${room})
	foreach(part IN LISTS V_USES V_SEES)
		string(REGEX REPLACE "^link_.*" "link" folder ${part})
		file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${folder} ${room}/${folder} SYMBOLIC)
	endforeach()
	file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${NAME} ${room}/${NAME} SYMBOLIC)
	add_library(${NAME} SHARED ${V_SOURCES})
	target_include_directories(${NAME} PRIVATE ${room})
	target_link_libraries(${NAME} PRIVATE ${V_USES} ${V_LINKS})
	target_link_options(${NAME} PRIVATE
		-Wl,--version-script=${V_MAP} -Wl,-z,nodelete -Wl,-Bsymbolic)
	if(VERBENA_LTO)
		target_link_options(${NAME} PRIVATE -flto=auto)
	endif()
	# The sanitizers' functions come from the program that loads the library.
	if(NOT VERBENA_SANITIZE)
		target_link_options(${NAME} PRIVATE -Wl,--no-undefined)
	endif()
	set_property(TARGET ${NAME} APPEND PROPERTY LINK_DEPENDS ${V_MAP})
	# lib/libNAME.so.N, and beside it the link libNAME.so: a program that opens the
	# unversioned name would find the distribution's library otherwise.
	string(REGEX MATCH "^lib(.*)\\.so\\.([0-9]+)$" soname ${V_SONAME})
	set_target_properties(${NAME} PROPERTIES OUTPUT_NAME ${CMAKE_MATCH_1}
		SOVERSION ${CMAKE_MATCH_2}
		LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endfunction()
