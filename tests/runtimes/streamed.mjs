// A handler that streams its response: the event's `text`, and then its `error`, if any.
export const handler = awslambda.streamifyResponse(async ({ text, error }, stream) => {
  if (text) stream.write(text);
  if (error) throw Object.assign(new Error(error), { name: 'CardDeclined' });
  stream.end();
});
