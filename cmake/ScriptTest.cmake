# script_test(NAME SCRIPT script [TIMEOUT seconds] [LABELS label...] [ARGUMENTS word...])
#
# A script of this folder that runs programs of the build: signals, deaths, deadlines, so it has the
# machine to itself. Its label is the folder's name unless others are given.
function(script_test NAME)
	cmake_parse_arguments(S "" "SCRIPT;TIMEOUT" "LABELS;ARGUMENTS" ${ARGN})
	if(NOT S_TIMEOUT)
		set(S_TIMEOUT 240)
	endif()
	if(NOT S_LABELS)
		get_filename_component(S_LABELS ${CMAKE_CURRENT_SOURCE_DIR} NAME)
	endif()
	add_test(NAME ${NAME} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${S_SCRIPT}
		--build ${PROJECT_BINARY_DIR} ${S_ARGUMENTS})
	set_tests_properties(${NAME} PROPERTIES LABELS "${S_LABELS}" TIMEOUT ${S_TIMEOUT}
		SKIP_RETURN_CODE 77 RUN_SERIAL ON)
endfunction()
