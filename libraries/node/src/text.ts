// Text that SQS accepts, cut to a number of bytes.

const ELLIPSIS = '…';
const ILLEGAL = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/u;
const EACH_ILLEGAL = new RegExp(ILLEGAL, 'gu');

/** Bytes of an error's name anywhere it is written. */
export const ERROR_TYPE_BYTES_MAX = 128;

export function bytesOf(text: string): number {
  return Buffer.byteLength(text);
}

/** Whether SQS refuses a character of it ("SendMessage", Amazon SQS API Reference); it refuses lone surrogates, too. */
export function hasIllegal(text: string): boolean {
  return ILLEGAL.test(text);
}

/** The text in at most so many bytes, what SQS refuses replaced by U+FFFD, an ellipsis if it was cut. */
export function clean(text: string, bytesMax: number): string {
  // No character has fewer bytes than UTF-16 units, so nothing behind these can stay: an error's text may have 2 MB.
  const legal = text.slice(0, bytesMax + 1).replace(EACH_ILLEGAL, '\uFFFD');
  if (text.length <= bytesMax && bytesOf(legal) <= bytesMax) {
    return legal;
  }
  const room = bytesMax - bytesOf(ELLIPSIS);
  if (room < 0) {
    return '';
  }
  let cut = '';
  let bytes = 0;
  for (const character of legal) {
    bytes += bytesOf(character);
    if (bytes > room) {
      break;
    }
    cut += character;
  }
  return cut + ELLIPSIS;
}

/** The largest number up to `wanted` that fits, found by halving the distance; none if not even 0 does. */
export function largestFitting(wanted: number, fits: (bytes: number) => boolean): number | undefined {
  if (fits(wanted)) {
    return wanted;
  }
  if (!fits(0)) {
    return undefined;
  }
  let [good, bad] = [0, wanted];
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    [good, bad] = fits(middle) ? [middle, bad] : [good, middle];
  }
  return good;
}
