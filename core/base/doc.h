/*
 * Doc: what describe() says to a reader and nothing else reads. A binary that only runs models
 * leaves these texts out, as it does derivatives: whoever asks for them takes the binary of a lab.
 */
#ifndef SS_BASE_DOC_H
#define SS_BASE_DOC_H

#ifdef SS_RUN_ONLY
#define SS_DOC(text) NULL
#else
#define SS_DOC(text) text
#endif

#endif
