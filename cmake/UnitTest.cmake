# unit_test(NAME SOURCES file... USES layer... [LABELS label...] [TIMEOUT seconds])
#
# A cmocka program registered with ctest. Tests see all of src/.
function(unit_test NAME)
	cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;USES;LABELS;LINKS" ${ARGN})
	add_executable(${NAME} ${T_SOURCES})
	target_include_directories(${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
	target_link_libraries(${NAME} PRIVATE ${T_USES} ${T_LINKS} PkgConfig::CMOCKA)
	add_test(NAME ${NAME} COMMAND ${NAME})
	if(NOT T_TIMEOUT)
		set(T_TIMEOUT 60)
	endif()
	# The limit ends what hangs; sanitizers make a test up to twenty times slower.
	if(VERBENA_SANITIZE)
		math(EXPR T_TIMEOUT "${T_TIMEOUT} * 5")
	endif()
	if(NOT T_LABELS)
		set(T_LABELS unit)
	endif()
	set_tests_properties(${NAME} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT}
		SKIP_RETURN_CODE 77)
endfunction()
