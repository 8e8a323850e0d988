package mindspan.client;

import java.util.Arrays;
import mindspan.client.Refused.Kind;

/** What a client must never forget, in whatever it is kept. */
public interface Memory {
  /** The last round of a task that was joined; -1 for none. */
  long lastRound(String task);

  /** The hash of the vector of this model that has left, or null. */
  byte[] spentVector(String task, byte[] model);

  /** The number of the newest revocation list that was accepted. */
  long revocationNumber();

  /** Each of these is on the disk when it returns. */
  void keepRound(String task, long round);

  void keepSpent(String task, byte[] model, byte[] vectorHash);

  void keepRevocationNumber(long number);

  /** Nothing, if the client may join: a later round, of a model whose update has not left. */
  default void checkNew(String task, long round, byte[] model) throws Refused {
    if (spentVector(task, model) != null) {
      throw new Refused(Kind.SpentUpdate, "the update of this model of task " + task + " is spent");
    }
    if (round <= lastRound(task)) {
      throw new Refused(
          Kind.StaleRound, "round " + round + " of " + task + " comes after " + lastRound(task));
    }
  }

  /** Records, before its first byte leaves, which vector is sent. */
  default void spend(String task, byte[] model, byte[] vectorHash) throws Refused {
    byte[] before = spentVector(task, model);
    if (before != null && !Arrays.equals(before, vectorHash)) {
      throw new Refused(Kind.SpentUpdate, "another vector of this model has left");
    }
    keepSpent(task, model, vectorHash);
  }
}
