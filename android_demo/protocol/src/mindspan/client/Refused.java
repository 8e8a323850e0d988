package mindspan.client;

/** What a client does not go along with; the kind is the name of the rule that was broken. */
public final class Refused extends Exception {
  private static final long serialVersionUID = 1;

  /** The rules, by the names that they have on the wire and in the documents. */
  public enum Kind {
    CohortTooSmall,
    ThresholdTooLow,
    KeysNotDistinct,
    BadKey,
    SwappedKey,
    BadCertificate,
    BadSignature,
    StaleRound,
    ModelMismatch,
    EncodingMismatch,
    SpentUpdate,
    TooFewShares,
    NotASurvivor,
    TooFewSurvivors,
    SplitView,
    StageReplayed,
    GivenUp,
  }

  public final Kind kind;

  public Refused(Kind kind, String message) {
    super(kind + ": " + message);
    this.kind = kind;
  }
}
