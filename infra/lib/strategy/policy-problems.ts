import type { PolicyDocument } from '../policy';

/** Refuses to block groups on a queue that has none. */
export function blockProblems({ on_give_up: onGiveUp }: PolicyDocument): string[] {
  return onGiveUp === 'block'
    ? ['policy/on_give_up is block, which only the strategy ordered supports; remove it.']
    : [];
}

/** Refuses a limit of redrives where no message comes back after one. */
export function redriveProblems({ max_redrives: redrives }: PolicyDocument): string[] {
  return redrives === undefined
    ? []
    : ['policy/max_redrives only applies to the strategies delayed-resend and direct-resend: remove it.'];
}
