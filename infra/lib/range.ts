import type { Duration } from 'aws-cdk-lib';

export function wholeNumberProblems(name: string, value: number, min: number, max: number, why: string): string[] {
  return Number.isInteger(value) && value >= min && value <= max
    ? []
    : [`${name} is ${value}; use a whole number from ${min} to ${max} (${why}).`];
}

/** Returns the problem if a duration is out of range or not in whole seconds; `max` may be infinite. */
export function durationProblems(name: string, value: Duration, min: number, max: number, why = ''): string[] {
  const seconds = value.toMilliseconds() / 1000;
  return Number.isInteger(seconds) && seconds >= min && seconds <= max
    ? []
    : [`${name} is ${seconds} s; use ${min} s to ${max} s, in whole seconds${why}.`];
}
