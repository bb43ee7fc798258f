/** The page's sources, the address of its code, and how to cite them. */
import { html, nothing, type TemplateResult } from 'lit';

const PAPER = 'https://arxiv.org/abs/2410.10781';

const citation = (version: string) => `@inproceedings{gu2025attention,
  title     = {When Attention Sink Emerges in Language Models: An Empirical View},
  author    = {Gu, Xiangming and Pang, Tianyu and Du, Chao and Liu, Qian and Zhang, Fengzhuo and
               Du, Cunxiao and Wang, Ye and Lin, Min},
  booktitle = {International Conference on Learning Representations},
  year      = {2025},
  url       = {${PAPER}}
}
@software{sinkscope,
  title   = {Sinkscope: Attention Sinks, Measured in the Browser},
  version = {${version}},
  license = {Apache-2.0}${SOURCE && `,\n  url     = {${SOURCE}}`}
}`;

const link = (address: string, text: string) =>
  html`<a href=${address} target="_blank" rel="noopener">${text}</a>`;

/** @param version the package's version; empty until the engine runs */
export function sources(version: string): TemplateResult {
  return html`<span
      >Based on Gu et al., ${link(PAPER, 'When Attention Sink Emerges in Language Models')} (ICLR
      2025)${SOURCE ? html` · ${link(SOURCE, 'Source')}` : nothing}</span
    >
    <details class="cite">
      <summary>Cite</summary>
      <pre tabindex="0">${citation(version)}</pre>
    </details>`;
}
