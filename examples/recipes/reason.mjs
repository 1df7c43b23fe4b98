export const reason = (error) => {
  const place = error?.stack?.match(/^ +(at .*)/m)?.[1];
  return { type: error?.name, details: `${error?.message ?? error}${place ? ` (${place})` : ''}` };
};
