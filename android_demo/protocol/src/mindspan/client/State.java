package mindspan.client;

import java.util.Arrays;
import mindspan.boxes.Hashes;
import mindspan.client.Refused.Kind;
import mindspan.messages.Malformed;

/**
 * A state holds the answer to the one message that it takes: the same bytes get the same answer
 * again, others are refused, so that no server can have one stage answered twice.
 */
abstract class State<N> {
  final Client client;
  private final byte[] message;
  private byte[] seen;
  private N answer;

  State(Client client, byte[] message) {
    this.client = client;
    this.message = message;
  }

  /** What to send, again and again if need be. */
  public byte[] message() {
    return message;
  }

  /** Erases the secrets; the round is over for this client. */
  public void abort() {
    client.secrets().wipe();
  }

  final N once(byte[] received, Step<N> step) throws Malformed, Refused {
    byte[] hash = Hashes.sha256(received);
    if (answer == null) {
      if (client.secrets().areWiped()) {
        // What would come now would be masked by zeros.
        throw new Refused(Kind.GivenUp, "the secrets of this round are erased");
      }
      answer = step.run();
      seen = hash;
    } else if (!Arrays.equals(seen, hash)) {
      throw new Refused(Kind.StageReplayed, "this stage was answered for other bytes");
    }
    return answer;
  }

  /** What a state does with its message. */
  interface Step<N> {
    N run() throws Malformed, Refused;
  }
}
