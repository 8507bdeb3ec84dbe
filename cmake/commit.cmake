cmake_minimum_required(VERSION 3.25)
# Writes OUTPUT, a header with the commit of SOURCE. Where nothing changed it is left as it is.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty OUTPUT_VARIABLE ROSSBY_COMMIT
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define ROSSBY_COMMIT \"@ROSSBY_COMMIT@\"\n" @ONLY)
