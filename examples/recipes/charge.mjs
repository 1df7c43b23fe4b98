// The recipes call `charge` with each message's body: replace it with your code.

/** Permanent, by `"non_retryable": ["*CardDeclined*"]` in the policy. */
class CardDeclined extends Error {
  // An error is identified by its `name`, which a subclass must set itself.
  name = 'CardDeclined';
}

/** A retry may succeed. */
class InsufficientFunds extends Error {
  name = 'InsufficientFunds';
}

export const charge = async (order) => {
  const cents = order.cents.reduce((sum, cents) => sum + cents);
  if (order.card === 'declined') throw new CardDeclined(`the card of order ${order.id} is declined`);
  if (cents > order.funds) throw new InsufficientFunds(`order ${order.id} needs ${cents} cents`);
};
