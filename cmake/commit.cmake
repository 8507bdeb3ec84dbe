cmake_minimum_required(VERSION 3.25)
# Writes OUTPUT, a source that defines rossby::commit() (rossby/run/version.hpp) as the commit of SOURCE. An
# unchanged commit does not touch the file.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty OUTPUT_VARIABLE ROSSBY_COMMIT
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#include \"rossby/run/version.hpp\"\n\nconst char* rossby::commit() {\n  return \"@ROSSBY_COMMIT@\";\n}\n" @ONLY)
