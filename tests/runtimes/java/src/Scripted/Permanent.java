package Scripted;

public final class Permanent extends RuntimeException {
    public Permanent(String text) {
        super(text);
    }
}
