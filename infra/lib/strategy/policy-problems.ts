import type { PolicyDocument } from '../policy';

/** Returns the problem if groups are to be blocked on a queue without groups. */
export function blockProblems({ on_give_up: onGiveUp }: PolicyDocument): string[] {
  return onGiveUp === 'block'
    ? ['policy/on_give_up is block, which only the strategy ordered supports; remove it.']
    : [];
}

/** Returns the problem if redrives are limited with a strategy that never re-sends redriven messages. */
export function redriveProblems({ max_redrives: redrives }: PolicyDocument): string[] {
  return redrives === undefined
    ? []
    : ['policy/max_redrives only applies to the strategies delayed-resend and direct-resend: remove it.'];
}
