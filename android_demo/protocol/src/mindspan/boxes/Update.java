package mindspan.boxes;

/** What training gives: the difference of the weights, an integer weight, and metrics. */
public record Update(float[] delta, long weight, double loss, long correct, long examples) {}
