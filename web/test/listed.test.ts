import { describe, expect, it } from 'vitest';
import { listedFor } from '../sw/listed';

const scope = 'https://a.example/page/';
const files = {
  'index.html': 'a1',
  'learn/1-what/index.html': 'b2',
  'assets/ä b.js': 'c3',
  'é.js': 'd4',
};
const at = (path: string) => listedFor(files, scope, `${scope}${path}`);

describe('what the service worker lists', () => {
  it('finds files by their paths, and folders by their index.html', () => {
    expect(at('')).toBe('a1');
    expect(at('index.html')).toBe('a1');
    expect(at('?utm_source=a#room=lab')).toBe('a1');
    expect(at('learn/1-what/')).toBe('b2');
    expect(at('assets/%C3%A4%20b.js?v=1')).toBe('c3');
    expect(at('learn/1-what')).toBeUndefined();
    expect(at('none.js')).toBeUndefined();
  });

  it('lists nothing under the names that every object has', () => {
    for (const name of ['constructor', 'toString', '__proto__', 'hasOwnProperty', 'valueOf'])
      expect(at(name), name).toBeUndefined();
  });

  it('lists nothing under what is no path, or lies outside of its folder', () => {
    expect(at('%E0%A4%A')).toBeUndefined();
    expect(at('%')).toBeUndefined();
    expect(listedFor(files, scope, 'https://a.example/index.html')).toBeUndefined();
    expect(listedFor(files, scope, 'https://a.example/')).toBeUndefined();
  });
});
