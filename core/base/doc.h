/*
 * Doc: texts of the tables for human readers, which only describe() uses. A build with SS_NO_DOC
 * leaves them out; the binaries are such builds, to stay small.
 */
#ifndef SS_BASE_DOC_H
#define SS_BASE_DOC_H

#ifdef SS_NO_DOC
#define SS_DOC(text) NULL
#else
#define SS_DOC(text) text
#endif

#endif
