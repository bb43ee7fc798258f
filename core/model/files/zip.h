/*
 * zip: the records of an archive with uncompressed contents, like those of torch.save.
 *
 * The directory at the end lists the records; the local header of each is checked against it.
 * Nothing is copied: names and contents are views of the file. zip64 is read, compression and
 * encryption are refused.
 */
#ifndef SS_MODEL_ZIP_H
#define SS_MODEL_ZIP_H

#include "../../base/bytes.h"
#include "../../base/status.h"

typedef struct ss_zip_record {
    ss_bytes name, data;
} ss_zip_record;

/* An iterator over the directory: call ss_zip_begin, then ss_zip_next n times. */
typedef struct ss_zip {
    ss_bytes file;
    size_t offset;     /* of the next directory record */
    size_t start, end; /* byte range of the directory */
    uint64_t n;
} ss_zip;

/* Iterate over the directory. Both return SS_BAD_FILE with the byte or the record's name;
 * SS_UNSUPPORTED for compressed or encrypted contents. */
ss_status ss_zip_begin(ss_zip *zip, ss_bytes file, ss_error *err);
ss_status ss_zip_next(ss_zip *zip, ss_zip_record *record, ss_error *err);

/* Reads records[zip->n], sorted by name; refuses duplicate names and overlapping contents. */
ss_status ss_zip_read(ss_zip_record *records, ss_zip *zip, ss_error *err);

const ss_zip_record *ss_zip_find(const ss_zip_record *records, size_t n, ss_bytes name);

#endif
