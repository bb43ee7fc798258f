# Brings cJSON, the one library that core uses, at configure time; it is never in the tree.
#
# Debian's source tarball and upstream's release are the same bytes, so one checksum covers both.
# The result is SINKSCOPE_CJSON_DIR, a folder with cJSON.c and cJSON.h; give it to skip all this.

set(SINKSCOPE_CJSON_DIR "" CACHE PATH "Folder with cJSON.c and cJSON.h; empty: fetch them")

set(cjson_version 1.7.19)
set(cjson_sha256 7fa616e3046edfa7a28a32d5f9eacfd23f92900fe1f8ccd988c1662f30454562)
set(cjson_home ${CMAKE_SOURCE_DIR}/.build/cjson)
set(cjson_tarball ${cjson_home}/cjson-${cjson_version}.tar.gz)

# True in `result` when that file is the tarball that we know.
function(cjson_is result file)
    set(${result} FALSE PARENT_SCOPE)
    if(EXISTS ${file})
        file(SHA256 ${file} found)
        if(found STREQUAL cjson_sha256)
            set(${result} TRUE PARENT_SCOPE)
        endif()
    endif()
endfunction()

# The mirror that this machine's apt already uses: the sources of all of Debian's releases lie beside
# the packages, so a newer version than this release's can be had.
function(cjson_from_debian file)
    find_program(apt_get apt-get)
    find_program(apt_helper apt-helper PATHS /usr/lib/apt)
    if(NOT apt_get OR NOT apt_helper)
        return()
    endif()
    execute_process(COMMAND ${apt_get} download --print-uris libcjson-dev
        OUTPUT_VARIABLE uris ERROR_QUIET)
    if(uris MATCHES "'([^']*)/[^/']*\\.deb'")
        execute_process(COMMAND ${apt_helper} download-file
            ${CMAKE_MATCH_1}/cjson_${cjson_version}.orig.tar.gz ${file}
            OUTPUT_QUIET ERROR_QUIET)
    endif()
endfunction()

function(cjson_from_upstream file)
    file(DOWNLOAD https://github.com/DaveGamble/cJSON/archive/refs/tags/v${cjson_version}.tar.gz
        ${file} TLS_VERIFY ON TIMEOUT 60)
endfunction()

# Fetches and unpacks in a folder of its own, then renames: another configuration may be doing the same
# at this moment, and the first that is done is the one that all use.
function(cjson_bring)
    string(RANDOM name)
    set(own ${cjson_home}/${name})
    file(MAKE_DIRECTORY ${own})
    cjson_is(known ${cjson_tarball})
    foreach(source debian upstream)
        if(NOT known)
            cmake_language(CALL cjson_from_${source} ${own}/new.tar.gz)
            cjson_is(known ${own}/new.tar.gz)
            if(known)
                file(RENAME ${own}/new.tar.gz ${cjson_tarball})
            endif()
        endif()
    endforeach()
    if(known)
        file(ARCHIVE_EXTRACT INPUT ${cjson_tarball} DESTINATION ${own})
        file(RENAME ${own}/cJSON-${cjson_version} ${SINKSCOPE_CJSON_DIR} RESULT late)
    endif()
    file(REMOVE_RECURSE ${own})
    if(NOT known)
        message(FATAL_ERROR "cJSON ${cjson_version} could not be fetched, or its SHA-256 is not "
            "${cjson_sha256}. Unpack it yourself and configure with -DSINKSCOPE_CJSON_DIR=<folder>.")
    endif()
    if(NOT EXISTS ${SINKSCOPE_CJSON_DIR}/cJSON.h)
        message(FATAL_ERROR "cJSON could not be unpacked into ${SINKSCOPE_CJSON_DIR}: ${late}")
    endif()
endfunction()

if(NOT SINKSCOPE_CJSON_DIR)
    set(SINKSCOPE_CJSON_DIR ${cjson_home}/cJSON-${cjson_version})
    if(NOT EXISTS ${SINKSCOPE_CJSON_DIR}/cJSON.h)
        cjson_bring()
    endif()
endif()
