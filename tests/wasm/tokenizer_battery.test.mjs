/**
 * Tests every kind of tokenizer.json that the tokenizers library writes, on texts that break tokenizers: the
 * ids, the offsets and the decoded texts are those of the library, or a refusal names what this build does not
 * read.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { openTokenizer } from '../../wasm/index.ts';
import { golden, hashOf, spansOf, withoutSpecial } from './helper.mjs';

const battery = JSON.parse(readFileSync(new URL('tokenizers/battery.json', golden), 'utf8'));
const texts = [...battery.texts, ...battery.long.map(([text, times]) => text.repeat(times))];

/** Kinds that this build refuses, with the place that the refusal names. */
const REFUSALS = {
  'bpe dropout': ['bad_tokenizer', 'model.dropout'],
  'wordlevel UnicodeScripts': ['unsupported', 'pre_tokenizer.type'],
  'unigram Precompiled': ['unsupported', 'normalizer.type'],
};

/** Replaces the hash of offsets that are wrong in the library, and are not compared. */
const NO_HASH = '--------';
/** Replaces the hash of a text that the library refuses. */
const ERROR = 'refused!';

const COLUMNS = {
  ids: (_, tokens) => tokens.map(({ id }) => id),
  spans: (_, tokens) => spansOf(tokens),
  decoded: (tokenizer, tokens) =>
    Array.from(tokenizer.decode(withoutSpecial(tokens).map(({ id }) => id)), (sign) =>
      sign.codePointAt(0),
    ),
};

function attempt(tokenizer, text) {
  try {
    return tokenizer.encode(text);
  } catch (error) {
    assert.equal(error.code, 'bad_tokenizer', String(error));
    return null;
  }
}

for (const { name, file, whole, ...hashes } of battery.cases) {
  const refusal = REFUSALS[name];
  test(`${name}: ${refusal ? 'rejected by name' : 'has the ids, offsets and decoded texts of the library'}`, () => {
    if (refusal) {
      const [code, where] = refusal;
      assert.throws(() => openTokenizer(file), { code, where });
      return;
    }
    const tokenizer = openTokenizer(file);
    const tokenLists = texts.map((text) => attempt(tokenizer, text));
    for (const [i, { ids, spans }] of Object.entries(whole)) {
      assert.deepEqual(COLUMNS.ids(tokenizer, tokenLists[i]), ids, texts[i]);
      if (hashes.spans.slice(8 * i, 8 * i + 8) !== NO_HASH)
        assert.deepEqual(COLUMNS.spans(tokenizer, tokenLists[i]), spans, texts[i]);
    }
    const differences = Object.entries(COLUMNS).flatMap(([column, columnOf]) =>
      texts.flatMap((text, i) => {
        const expectedHash = hashes[column].slice(8 * i, 8 * i + 8);
        const actualHash =
          tokenLists[i] === null ? ERROR : hashOf(columnOf(tokenizer, tokenLists[i]));
        if (expectedHash === NO_HASH || expectedHash === actualHash) return [];
        const shownValues =
          tokenLists[i] && columnOf(tokenizer, tokenLists[i]).slice(0, 60).join(' ');
        return [`${column} of text ${i} ${JSON.stringify(text.slice(0, 60))}: ${shownValues}`];
      }),
    );
    assert.deepEqual(differences, []);
  });
}
