/**
 * Makes the moving picture of the README: one head of the softmax model through training, as Start's story shows it.
 *
 *     tests/node web/cards/moving_picture.mjs web/sink.gif      the page must be built; Python needs Pillow
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStage, settled } from '../../tests/browser/stage.mjs';

const JOIN = `
import sys
from PIL import Image, ImageChops
*names, out = sys.argv[1:]
frames = [Image.open(name).convert("RGB") for name in names]
# The room below the words is left out.
ground = Image.new("RGB", frames[-1].size, frames[-1].getpixel((frames[-1].width - 1, frames[-1].height - 1)))
bottom = ImageChops.difference(frames[-1], ground).getbbox()[3] + 6
frames = [f.crop((0, 0, f.width, bottom)) for f in frames]
frames = [f.resize((720, round(720 * f.height / f.width)), Image.LANCZOS) for f in frames]
# Colors of all frames, for the first maps have some that the last has not.
sheet = Image.new("RGB", (frames[0].width, frames[0].height * len(frames)))
for i, frame in enumerate(frames):
    sheet.paste(frame, (0, i * frame.height))
palette = sheet.quantize(96)
frames = [f.quantize(palette=palette, dither=Image.Dither.NONE) for f in frames]
durations = [700] + [350] * (len(frames) - 2) + [2500]
frames[0].save(out, save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True)
`;

const [out = 'web/sink.gif'] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'sinkscope-picture-'));
const stage = await openStage();
try {
  const page = await stage.open('why=5', { waits: false });
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.waitForFunction(() => /Step 0 of/.test(document.querySelector('.step-5').textContent));
  await settled(page);
  const slider = page.locator('.step-5 .walk input');
  const last = Number(await slider.getAttribute('max'));
  const names = [];
  for (let i = 0; i <= last; i++) {
    await slider.evaluate((input, at) => {
      input.value = at;
      input.dispatchEvent(new Event('input', { bubbles: true }));
    }, String(i));
    await settled(page);
    await page.waitForTimeout(500);
    const name = join(folder, `${String(i).padStart(2, '0')}.png`);
    await page.locator('.step-5 .step-place').screenshot({ path: name });
    names.push(name);
  }
  execFileSync(process.env.PYTHON ?? 'python3', ['-c', JOIN, ...names, out], { stdio: 'inherit' });
} finally {
  await stage.close();
  rmSync(folder, { recursive: true });
}
