/* Doc: explanations in tables, for human readers; only describe() uses them. The binaries are built
 * with SS_NO_DOC, which leaves the explanations out, to stay small. */
#ifndef SS_BASE_DOC_H
#define SS_BASE_DOC_H

#ifdef SS_NO_DOC
#define SS_DOC(text) NULL
#else
#define SS_DOC(text) text
#endif

#endif
