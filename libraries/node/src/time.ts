// Moments: milliseconds since 1970, with microseconds as a fraction.

const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

/** RFC 3339 UTC with microseconds and `Z`, as redeliver writes all its times. */
export function rfc3339(moment: number): string {
  const micros = Math.round((moment - Math.floor(moment)) * 1000);
  const whole = new Date(Math.floor(moment) + Math.floor(micros / 1000)).toISOString();
  return `${whole.slice(0, -1)}${String(micros % 1000).padStart(3, '0')}Z`;
}

/** Reads RFC 3339 with any offset; nothing if it is no time that exists. */
export function parseRfc3339(text: string): number | undefined {
  const [, year, month, day, hour, minute, second, fraction = '', sign, ofHours = '0', ofMinutes = '0'] =
    RFC_3339.exec(text) ?? [];
  const [y, mon, d, h, min, s, oh, om] = [year, month, day, hour, minute, second, ofHours, ofMinutes].map(Number) as [
    number, number, number, number, number, number, number, number,
  ];
  const date = new Date(0);
  date.setUTCFullYear(y, mon - 1, d);
  const exists = date.getUTCMonth() === mon - 1 && date.getUTCDate() === d && h <= 23 && min <= 59 && s <= 60;
  if (!exists || oh > 23 || om > 59) {
    return undefined;
  }
  const offset = (sign === '-' ? -1 : 1) * (oh * 60 + om);
  const minutes = h * 60 + min - offset;
  // A leap second is the last one of a day in UTC.
  if (s === 60 && (((minutes % 1440) + 1440) % 1440) !== 1439) {
    return undefined;
  }
  return date.getTime() + minutes * 60_000 + s * 1000 + Number(fraction.slice(0, 6).padEnd(6, '0')) / 1000;
}
