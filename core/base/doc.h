/*
 * Doc: texts of the tables that only describe() reads, for a person. A build without them
 * (SS_NO_DOC) describes the same rows without these members; the binaries are such builds, because
 * they are downloaded.
 */
#ifndef SS_BASE_DOC_H
#define SS_BASE_DOC_H

#ifdef SS_NO_DOC
#define SS_DOC(text) NULL
#else
#define SS_DOC(text) text
#endif

#endif
