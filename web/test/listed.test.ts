import { describe, expect, it } from 'vitest';
import { listedFor, packList, unpackList } from '../sw/listed';

const scope = 'https://a.example/page/';
const files = {
  'index.html': 'a1',
  'learn/1-what/index.html': 'b2',
  'assets/ä b.js': 'c3',
  'é.js': 'd4',
};
const at = (path: string) => listedFor(files, scope, `${scope}${path}`);

describe('the list of the service worker', () => {
  it('finds files by their paths, and folders by their index.html', () => {
    expect(at('')).toBe('a1');
    expect(at('index.html')).toBe('a1');
    expect(at('?utm_source=a#room=lab')).toBe('a1');
    expect(at('learn/1-what/')).toBe('b2');
    expect(at('assets/%C3%A4%20b.js?v=1')).toBe('c3');
    expect(at('learn/1-what')).toBeUndefined();
    expect(at('none.js')).toBeUndefined();
  });

  it('does not find names that every JavaScript object has', () => {
    for (const name of ['constructor', 'toString', '__proto__', 'hasOwnProperty', 'valueOf'])
      expect(at(name), name).toBeUndefined();
  });

  it('finds nothing for invalid paths and paths outside its folder', () => {
    expect(at('%E0%A4%A')).toBeUndefined();
    expect(at('%')).toBeUndefined();
    expect(listedFor(files, scope, 'https://a.example/index.html')).toBeUndefined();
    expect(listedFor(files, scope, 'https://a.example/')).toBeUndefined();
  });
});

describe('the packed list of files', () => {
  const entries = [
    { path: 'index.html', ahead: true, hashes: ['AAAA+AA/'] },
    { path: 'assets/ä b.js', ahead: true, hashes: ['BBBBBBBB'] },
    { path: 'assets/c.svg', ahead: false, hashes: ['CCCCCCCC'] },
    { path: 'zoo/0a/index.json', ahead: true, hashes: ['DDDDDDDD'] },
    { path: 'zoo/0a/softmax/packed.gz', ahead: true, hashes: ['EEEEEEEE', 'FFFFFFFF'] },
    { path: 'zoo/0a/softmax/card.md', ahead: false, hashes: ['GGGGGGGG'] },
  ];

  it('names each folder once, and omits the folder of the zoo', () => {
    expect(packList(entries, 'zoo/0a/')).toBe(
      [
        '\t*index.html\tAAAA+AA/',
        'assets/\t*ä b.js\tBBBBBBBB\tc.svg\tCCCCCCCC',
        '/\t*index.json\tDDDDDDDD',
        '/softmax/\t*packed.gz\tEEEEEEEE,FFFFFFFF\tcard.md\tGGGGGGGG',
      ].join('\n'),
    );
  });

  it('unpacks to the list that was packed', () => {
    expect(unpackList(packList(entries, 'zoo/0a/'), 'zoo/0a/')).toEqual(entries);
  });

  it('rejects a path that contains a separator of the list', () => {
    const file = { path: 'a\tb.js', ahead: false, hashes: ['A'] };
    expect(() => packList([file], 'zoo/')).toThrow('a\tb.js');
  });
});
