# layer(NAME SOURCES file... [USES layer...] [LINKS library...])
#
# A layer is a static library of hidden symbols. Its include path is a folder of
# links made at configure time that holds the layer itself and the layers it may
# use, nothing else: an include line that points the wrong way does not compile.
# With VERBENA_LTO its objects can be optimised across layers, by who asks for that when it links.
function(layer NAME)
	cmake_parse_arguments(L "" "" "SOURCES;USES;LINKS" ${ARGN})
	set(room ${PROJECT_BINARY_DIR}/layers/${NAME})
	file(MAKE_DIRECTORY ${room})
	foreach(part IN ITEMS ${NAME} LISTS L_USES)
		string(REGEX REPLACE "^link_.*" "link" folder ${part})
		file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${folder} ${room}/${folder} SYMBOLIC)
	endforeach()
	add_library(${NAME} STATIC ${L_SOURCES})
	target_include_directories(${NAME} PRIVATE ${room})
	set_property(TARGET ${NAME} PROPERTY VERBENA_ROOM ${room})
	set_property(TARGET ${NAME} PROPERTY OUTPUT_NAME vbn_${NAME})
	if(VERBENA_LTO)
		target_compile_options(${NAME} PRIVATE -flto -ffat-lto-objects)
	endif()
	target_link_libraries(${NAME} PUBLIC ${L_USES} PRIVATE ${L_LINKS})
endfunction()
