# Brings cJSON, the one library that core uses, at configure time; it is never in the tree.
#
# Debian's source tarball and upstream's release are the same bytes, so one checksum covers both.
# The result is SINKSCOPE_CJSON_DIR, a folder with cJSON.c and cJSON.h; give it to skip all this.

set(SINKSCOPE_CJSON_DIR "" CACHE PATH "Folder with cJSON.c and cJSON.h; empty: fetch them")

set(cjson_version 1.7.19)
set(cjson_sha256 7fa616e3046edfa7a28a32d5f9eacfd23f92900fe1f8ccd988c1662f30454562)
set(cjson_home ${CMAKE_SOURCE_DIR}/.build/cjson)
set(cjson_tarball ${cjson_home}/cjson-${cjson_version}.tar.gz)

# True in `result` when the tarball is there and is the one we know.
function(cjson_is_here result)
    set(${result} FALSE PARENT_SCOPE)
    if(EXISTS ${cjson_tarball})
        file(SHA256 ${cjson_tarball} found)
        if(found STREQUAL cjson_sha256)
            set(${result} TRUE PARENT_SCOPE)
        endif()
    endif()
endfunction()

# The mirror that this machine's apt already uses: the sources of all of Debian's releases lie beside
# the packages, so a newer version than this release's can be had.
function(cjson_from_debian)
    find_program(apt_get apt-get)
    find_program(apt_helper apt-helper PATHS /usr/lib/apt)
    if(NOT apt_get OR NOT apt_helper)
        return()
    endif()
    execute_process(COMMAND ${apt_get} download --print-uris libcjson-dev
        OUTPUT_VARIABLE uris ERROR_QUIET)
    if(uris MATCHES "'([^']*)/[^/']*\\.deb'")
        execute_process(COMMAND ${apt_helper} download-file
            ${CMAKE_MATCH_1}/cjson_${cjson_version}.orig.tar.gz ${cjson_tarball}
            OUTPUT_QUIET ERROR_QUIET)
    endif()
endfunction()

function(cjson_from_upstream)
    file(DOWNLOAD https://github.com/DaveGamble/cJSON/archive/refs/tags/v${cjson_version}.tar.gz
        ${cjson_tarball} TLS_VERIFY ON TIMEOUT 60)
endfunction()

if(NOT SINKSCOPE_CJSON_DIR)
    file(MAKE_DIRECTORY ${cjson_home})
    cjson_is_here(here)
    if(NOT here)
        cjson_from_debian()
        cjson_is_here(here)
    endif()
    if(NOT here)
        cjson_from_upstream()
        cjson_is_here(here)
    endif()
    if(NOT here)
        message(FATAL_ERROR "cJSON ${cjson_version} could not be fetched, or its SHA-256 is not "
            "${cjson_sha256}. Unpack it yourself and configure with -DSINKSCOPE_CJSON_DIR=<folder>.")
    endif()
    file(ARCHIVE_EXTRACT INPUT ${cjson_tarball} DESTINATION ${cjson_home})
    set(SINKSCOPE_CJSON_DIR ${cjson_home}/cJSON-${cjson_version})
endif()
